"""One training run, alone or as one rank of many: the loop that both entry scripts share."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from torch.utils.tensorboard import SummaryWriter

from fashion_mnist import checkpoint, data
from fashion_mnist.model import Net


@dataclass(frozen=True)
class Settings:
    """What one run needs; `checkpoint` is resumed from when it exists, and written after each epoch by rank 0."""

    data: Path
    checkpoint: Path
    logs: Path
    epochs: int = 1
    batch_size: int = 64
    test_batch_size: int = 1000
    learning_rate: float = 0.02
    momentum: float = 0.9
    seed: int = 1
    log_interval: int = 10
    backend: str = "gloo"
    download: bool = True
    use_cuda: bool = False


def leave() -> NoReturn:
    """End the process at once, successfully, when all work is done.

    PyTorch 2.13 sometimes aborts ("terminate called without an active exception") in threads that outlive the
    interpreter, and a rank that aborts is a rank that failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run(settings: Settings) -> float:
    """Train and return the test accuracy, 0 to 1. Rank 0 alone writes logs, TensorBoard and the checkpoint.

    RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment, as the operator and torchrun set them.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1:
        print(f"Using distributed PyTorch with {settings.backend} backend", flush=True)
        dist.init_process_group(settings.backend)
    try:
        return _train(settings, rank=dist.get_rank() if world_size > 1 else 0, world_size=world_size)
    finally:
        if world_size > 1:
            dist.destroy_process_group()


def _train(settings: Settings, rank: int, world_size: int) -> float:
    torch.manual_seed(settings.seed)
    device = _device(settings)
    found = data.prepare(settings.data, download=settings.download)
    if rank == 0:
        print(f"Data: {found}", flush=True)
    training = data.load(settings.data, "train")
    sampler: DistributedSampler[TensorDataset] = DistributedSampler(
        training, num_replicas=world_size, rank=rank, seed=settings.seed
    )
    batches = DataLoader(training, batch_size=settings.batch_size, sampler=sampler)

    net = Net().to(device)
    optimizer = SGD(net.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    finished = checkpoint.load(settings.checkpoint, net, optimizer)
    if rank == 0 and finished:
        print(f"Resuming from {settings.checkpoint} after epoch {finished}", flush=True)
    model: nn.Module = DistributedDataParallel(net) if world_size > 1 else net

    writer = SummaryWriter(str(settings.logs)) if rank == 0 else None
    accuracy = 0.0
    for epoch in range(finished + 1, finished + settings.epochs + 1):
        sampler.set_epoch(epoch)
        _epoch(settings, epoch, model, optimizer, batches, device, world_size, writer)
        if rank == 0:
            accuracy = evaluate(net, data.load(settings.data, "test"), settings.test_batch_size, device)
            print(f"\naccuracy={accuracy:.4f}\n", flush=True)
            checkpoint.save(settings.checkpoint, net, optimizer, epoch)
            print(f"Checkpoint: {settings.checkpoint}", flush=True)
            if writer:
                writer.add_scalar("accuracy", accuracy, epoch)
    if writer:
        writer.close()
    if world_size > 1:
        dist.barrier()  # a rank that leaves early would break the connections of the others
    return accuracy


def _device(settings: Settings) -> torch.device:
    if settings.use_cuda and torch.cuda.is_available():
        index = int(os.environ.get("LOCAL_RANK", "0"))
        torch.cuda.set_device(index)
        return torch.device("cuda", index)
    return torch.device("cpu")


def _epoch(
    settings: Settings,
    epoch: int,
    model: nn.Module,
    optimizer: Optimizer,
    batches: DataLoader[tuple[torch.Tensor, ...]],
    device: torch.device,
    world_size: int,
    writer: SummaryWriter | None,
) -> None:
    model.train()
    total = len(batches.dataset)  # type: ignore[arg-type]  # TensorDataset is sized; Dataset does not say so
    for index, (images, labels) in enumerate(batches):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images.to(device)), labels.to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if writer and index % settings.log_interval == 0:
            seen = index * settings.batch_size * world_size
            share = 100.0 * index / len(batches)
            print(f"Train Epoch: {epoch} [{seen}/{total} ({share:.0f}%)]\tloss={loss.item():.4f}", flush=True)
            writer.add_scalar("loss", loss.item(), (epoch - 1) * len(batches) + index)


def evaluate(net: nn.Module, tests: TensorDataset, batch_size: int, device: torch.device) -> float:
    """Return the share of test images that the network classifies rightly, 0 to 1."""
    net.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in DataLoader(tests, batch_size=batch_size):
            correct += int((net(images.to(device)).argmax(1) == labels.to(device)).sum())
    return correct / len(tests)
