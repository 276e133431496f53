# Sourced by ./demo and ./check: makes .venv hold this project with the extras named in $1, and says what it does.
# Nothing happens when the last installation was of the same extras, pyproject.toml and interpreter.

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$1" >&2; [ -n "${2:-}" ] && printf 'hint: %s\n' "$2" >&2; exit 1; }

environment() {
    extras=$1
    [ "$(uname -s)" = Linux ] || die "Linux only so far (on Windows use WSL2)"
    python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        die "python3 of version 3.11 or newer is needed" "install it, or name it: PYTHON=/path/to/python3.12 $0"
    if [ ! -x .venv/bin/python ]; then
        say "creating .venv with $("$python" --version)"
        "$python" -m venv .venv || { rm -rf .venv; die "python3 cannot make virtual environments" "apt install python3-venv"; }
    fi
    wanted=$(.venv/bin/python -c 'import hashlib, sys
print(sys.version, sys.argv[1], hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest())' "$extras")
    if [ "$(cat .venv/.installed 2>/dev/null)" != "$wanted" ]; then
        say "installing trainshed[$extras] into .venv (PyTorch is a large download; the second time is quick)"
        .venv/bin/python -m pip install --progress-bar off --quiet --editable ".[$extras]" ||
            die "installation failed" "see the message of pip above; the network is needed for packages"
        case ",$extras," in *,tensorflow,*)
            # Keras 2 of the same minor version. By itself it asks for the package `tensorflow`, whose files and GPU
            # libraries would be written over those of `tensorflow-cpu`.
            minor=$(.venv/bin/python -c 'from importlib.metadata import version
print(".".join(version("tensorflow-cpu").split(".")[:2]))') &&
                .venv/bin/python -m pip install --progress-bar off --quiet --no-deps "tf-keras==$minor.*" ||
                die "installation failed" "see the message of pip above; the network is needed for packages" ;;
        esac
        printf '%s\n' "$wanted" > .venv/.installed
    fi
}
