"""Asks a container's health service: a gRPC probe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trainshed.cluster.backend import ByteStream
from trainshed.cluster.node.pod.grpchealth import SERVING, UNIMPLEMENTED, CallFailed, HealthCall
from trainshed.cluster.node.pod.handlers import Outcome, Target, authority_of, reason_of
from trainshed.cluster.sandbox.api import RuntimeLost, SandboxNotFound

_REDIAL_SECONDS = 0.2


async def ask(target: Target, handler: Mapping[str, Any], timeout: float) -> Outcome:
    """Ask the container's health service; texts as those of pkg/probe/grpc."""
    authority = authority_of(target.ip, int(handler["port"]))
    connected = False
    try:
        async with asyncio.timeout(timeout):
            stream = await _dial_patiently(target, int(handler["port"]))
            connected = True
            try:
                status = await _health(stream, HealthCall(authority, handler.get("service") or ""))
            finally:
                await stream.close()
    except TimeoutError:
        if connected:
            return Outcome(False, f"timeout: health rpc did not complete within {timeout:g}s")
        text = (
            f'timeout: failed to connect service "{authority}" within {timeout:g}s: context deadline exceeded'
        )
        return Outcome(False, text)
    except CallFailed as error:
        if error.code == UNIMPLEMENTED:
            text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
            return Outcome(False, f"{text}: {error.description}")
        return Outcome(False, f"error: health rpc probe failed: {error}")
    except (SandboxNotFound, RuntimeLost) as error:
        return Outcome(False, str(error), errored=True)
    if status == SERVING:
        return Outcome(True)
    return Outcome(False, f'service unhealthy (responded with "{status}")')


async def _dial_patiently(target: Target, port: int) -> ByteStream:
    """Connect, again and again: a client of gRPC keeps trying until its time is over."""
    while True:
        try:
            return await target.runtime.dial(target.uid, port, target.ip)
        except OSError:
            await asyncio.sleep(_REDIAL_SECONDS)


async def _health(stream: ByteStream, call: HealthCall) -> str:
    try:
        await stream.write(call.request())
        while not call.done:
            data = await stream.read()
            if not data:
                call.end()
            answer = call.feed(data)
            if answer and not call.done:
                await stream.write(answer)
    except OSError as error:
        raise CallFailed("Unavailable", f"connection error: {reason_of(error)}") from None
    return call.status()
