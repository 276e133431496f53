"""Instructions → stages that are needed, and steps with their variables replaced."""

from __future__ import annotations

import pytest

from trainshed.cluster.images.dockerfile.evaluation import Evaluated, evaluate
from trainshed.cluster.images.dockerfile.lines import DockerfileError
from trainshed.cluster.images.dockerfile.parse import parse
from trainshed.cluster.images.dockerfile.planning import plan as plan_of
from trainshed.cluster.images.dockerfile.steps import (
    CopyStep,
    DirectoryStep,
    Note,
    Options,
    RunStep,
)
from trainshed.cluster.images.oci import Healthcheck, Platform, RunConfig

BASE = RunConfig(env=("PATH=/bin",), cmd=("old",), working_dir="/w")


def evaluated(text: str, base: RunConfig = BASE, options: Options | None = None) -> Evaluated:
    """Return the last stage of a Dockerfile of which the first lines may be left out."""
    options = options or Options()
    plan = plan_of(parse(text if "FROM" in text else f"FROM x\n{text}"), options)
    return evaluate(plan, plan.stages[-1], base, options)


def test_only_what_the_target_needs_is_built() -> None:
    text = (
        "FROM a AS one\nFROM b AS two\nFROM c AS three\nCOPY --from=one x y\n"
        "FROM two AS four\nRUN --mount=type=bind,from=three,target=/t x\nFROM d AS five\n"
    )
    for target, needed in {
        "": ["five"],
        "three": ["one", "three"],
        "FOUR": ["one", "two", "three", "four"],
        "0": ["one"],
    }.items():
        assert [stage.name for stage in plan_of(parse(text), Options(target=target)).stages] == needed
    with pytest.raises(DockerfileError, match='target stage "six" could not be found'):
        plan_of(parse(text), Options(target="six"))


def test_a_stage_takes_files_from_stages_before_it_only() -> None:
    with pytest.raises(DockerfileError, match="is no stage before this one") as caught:
        plan_of(parse("FROM a AS one\nCOPY --from=two x y\nFROM b AS two\nCOPY --from=one x y\n"), Options())
    assert caught.value.line == 2


def test_where_files_come_from_may_be_an_argument_of_the_whole_file() -> None:
    text = "ARG S=one\nFROM a AS one\nFROM b\nARG S=two\nCOPY --from=$S x y\nRUN --mount=type=bind,From=$S,dst=/z x\n"
    plan = plan_of(parse(text), Options())
    assert [stage.name for stage in plan.stages] == ["one", "stage-1"]
    _, copy, run = evaluate(plan, plan.stages[-1], BASE, Options()).steps
    assert isinstance(copy, CopyStep) and isinstance(run, RunStep)
    assert (copy.origin, run.mounts[0].origin, run.mounts[0].target) == ("one", "one", "/z")


def test_arguments_reach_from_and_the_stages_that_declare_them() -> None:
    options = Options(
        arguments={"V": "2", "HTTP_PROXY": "p", "NOBODY": "x"}, platform=Platform("arm64", "linux", "v8")
    )
    text = "ARG V=1\nARG W=w$V\nFROM img:$V-$W-$TARGETARCH\nARG V\nARG W\nARG X=${V}x\nENV X=env\nRUN a"
    plan = plan_of(parse(text), options)
    assert plan.stages[0].base == "img:2-w2-arm64" and plan.unused == ("NOBODY",)
    (run,) = [s for s in evaluate(plan, plan.stages[0], BASE, options).steps if isinstance(s, RunStep)]
    assert dict(run.env) == {"PATH": "/bin", "V": "2", "W": "w2", "X": "env", "HTTP_PROXY": "p"}
    assert run.history.startswith("RUN |2 V=2 W=w2 ")


def test_an_undeclared_argument_is_not_seen() -> None:
    (run,) = evaluated("ARG V=1\nFROM x\nRUN a", options=Options(arguments={"V": "2"})).steps
    assert isinstance(run, RunStep) and "V" not in dict(run.env)


def test_configuration() -> None:
    found = evaluated(
        "ENV A=1 B=$A\nENV C=$A\nLABEL a=$C b='x y'\nUSER me:$C\nWORKDIR sub\nWORKDIR ../other\nEXPOSE 80 90-91/udp\n"
        'VOLUME /a ["b"]\nVOLUME ["/c d"]\nSTOPSIGNAL SIGINT\nHEALTHCHECK CMD a b\nSHELL ["/bin/bash", "-c"]\n'
        "ENTRYPOINT run it\nMAINTAINER me\n"
    )
    config = found.config
    assert config.env == ("PATH=/bin", "A=1", "B=", "C=1")
    assert (config.labels, config.user, config.working_dir) == ({"a": "1", "b": "x y"}, "me:1", "/w/other")
    assert config.exposed_ports == {"80/tcp": {}, "90/udp": {}, "91/udp": {}}
    assert set(config.volumes or ()) == {"/a", "/[b]", "/c d"}
    assert config.healthcheck == Healthcheck(test=("CMD-SHELL", "a b"))
    assert (config.stop_signal, config.shell) == ("SIGINT", ("/bin/bash", "-c"))
    assert (config.entrypoint, config.cmd) == (("/bin/bash", "-c", "run it"), None), (
        "the base's CMD was for its own"
    )
    assert found.author == "me"


def test_a_cmd_of_this_file_stays_beside_an_entrypoint_after_it() -> None:
    assert evaluated('CMD ["a"]\nENTRYPOINT ["b"]').config.cmd == ("a",)


def test_copies() -> None:
    found = evaluated(
        "ARG D=/dst\nCOPY --chown=$D:g --chmod=0640 a b $D/\nCOPY x .\nCOPY y /z\nADD https://h/f.tgz ../../../etc/\n"
        'COPY <<one <<"two" d/\n$D "quoted" \\$D\none\n$D\ntwo\n'
    ).steps
    first, second, third, fourth, fifth = (step for step in found if isinstance(step, CopyStep))
    assert (first.sources, first.target, first.chown, first.mode) == (("a", "b"), "/dst/", "/dst:g", 0o640)
    assert (second.target, third.target, fourth.target) == ("/w/", "/z", "/etc/")
    assert fourth.add and fifth.documents == (("one", '/dst "quoted" $D\n'), ("two", "$D\n"))
    assert fifth.target == "/w/d/"


def test_runs_with_here_documents() -> None:
    first, second, third = evaluated(
        "RUN <<E\na\nb\nE\nRUN <<E\n#!/bin/python\nc\nE\nRUN cat <<-E | sh\n\tx\n\tE\n"
    ).steps
    assert isinstance(first, RunStep) and first.argv == ("/bin/sh", "-c", "a\nb\n")
    assert isinstance(second, RunStep) and (second.argv, second.script) == ((), "#!/bin/python\nc\n")
    assert isinstance(third, RunStep) and third.argv == ("/bin/sh", "-c", "cat <<E | sh\nx\nE")


def test_mounts() -> None:
    (step,) = evaluated(
        "RUN --mount=target=/src,ro --mount=type=cache,dst=pip,id=p,uid=7,mode=0700 --mount=type=tmpfs,target=/t "
        "--mount=type=secret,id=key,required --mount=type=secret,id=e,env=E "
        "--mount=type=bind,from=i,source=/a,target=/b,rw x"
    ).steps
    assert isinstance(step, RunStep)
    bind, cache, tmpfs, key, variable, other = step.mounts
    assert (bind.kind, bind.target, bind.read_only) == ("bind", "/src", True)
    assert (cache.target, cache.id, cache.uid, cache.mode, cache.read_only) == (
        "/w/pip",
        "p",
        7,
        0o700,
        False,
    )
    assert tmpfs.target == "/t" and (key.target, key.required) == ("/run/secrets/key", True)
    assert (variable.target, variable.variable) == ("", "E")
    assert (other.origin, other.source, other.read_only) == ("i", "/a", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EXPOSE web", "Invalid containerPort: web"),
        ("EXPOSE 70000", "Invalid containerPort"),
        ('ENV A="${B:?is needed}"', "B: is needed"),
        ("COPY https://x/y z", "can't be a URL for COPY"),
        ("ADD https://x/y.git z", "not fetched"),
        ("ADD git@x:y z", "not fetched"),
        ("COPY --chmod=u+x a b", "must be octal"),
        ("STOPSIGNAL a b c$", "exactly one"),
        ("STOPSIGNAL no;", "Invalid signal"),
        ("RUN --mount=type=ssh x", "no agent"),
        ("RUN --mount=type=cache x", "needs a target"),
        ("RUN --mount=type=cache,target=/a,sieze=1 x", "no field 'sieze'"),
        ("RUN --mount=type=cache,target=/a,uid=root x", "no number"),
        ("LABEL io.trainshed.base=machine", "set by builds"),
        ("RUN []", "names no command"),
        ("ARG S=0\nCOPY --from=$S a b", "before the first FROM count here"),
        ("FROM $NONE", "should not be blank"),
    ],
)
def test_what_cannot_be_done_has_a_line(text: str, message: str) -> None:
    with pytest.raises(DockerfileError) as caught:
        evaluated(f"FROM x\n{text}")
    assert message in caught.value.message and caught.value.line == text.count("\n") + 2


def test_every_instruction_is_remembered() -> None:
    found = evaluated('ARG A=1\nENV B=2\nRUN x\nCOPY a b\nWORKDIR /d\nCMD ["y"]').steps
    assert [type(step) for step in found] == [Note, Note, RunStep, CopyStep, DirectoryStep, Note]
    assert [step.history for step in found] == [
        "ARG A=1",
        "ENV B=2",
        "RUN |1 A=1 /bin/sh -c x # buildkit",
        "COPY a b # buildkit",
        "WORKDIR /d",
        'CMD ["y"]',
    ]
