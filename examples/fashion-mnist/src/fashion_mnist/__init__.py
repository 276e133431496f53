"""Fashion-MNIST classification with PyTorch DDP: data, model and training loop of the example jobs."""
