#!/usr/bin/env bash
# The tests of hostile things: as this user and, where this is root, as one without rights; with Landlock and without.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Test crates, and the names in them: what stands around the store, the store itself, and what jobs do.
hostile=(hostile:)
damage=(cli:damage::)
inside=(orch:exec::bug:: orch:worker:: orch:confine orch:base:: orch:store::)

built=$(cargo test --no-run --lib --test hostile --test cli --message-format json 2>/dev/null)
executable() {
    python3 -c 'import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if told.get("executable") and told["target"]["name"] == sys.argv[1] and told["profile"]["test"]: print(told["executable"])' "$1" <<<"$built"
}

users=("as $(id -un)")
if [ "$(id -u)" = 0 ]; then users+=("as nobody"); else echo "not root: what root could do is not tried"; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
failed=()
for user in "${users[@]}"; do
    for sandbox in on off; do
        home=$scratch/${user#as }-$sandbox
        mkdir "$home"
        as=(env "HOME=$home" "TMPDIR=$home" "ORCH_TEST_TMPDIR=$home" "ORCH_SANDBOX=$sandbox")
        if [ "$user" = "as nobody" ]; then
            chown 65534:65534 "$home"
            # Root's own folders on PATH are closed to others.
            as=(setpriv --reuid 65534 --regid 65534 --clear-groups "${as[@]}" PATH=/usr/local/bin:/usr/bin:/bin)
        fi
        for row in "${hostile[@]}" "${damage[@]}" "${inside[@]}"; do
            printf '\n== %s, Landlock %s: %s\n' "$user" "$sandbox" "$row"
            said=$("${as[@]}" "$(executable "${row%%:*}")" ${row#*:} 2>&1) && tried=yes || tried=failed
            # A filter that is in no test's name is a mistake in the list above.
            if [ $tried = yes ] && ! grep -q "^test result: ok\. [1-9]" <<<"$said"; then tried="no tests"; fi
            if [ "$tried" = yes ]; then grep "^test result" <<<"$said"; else echo "$said"; failed+=("$user, Landlock $sandbox: $row: $tried"); fi
        done
    done
done
if [ ${#failed[@]} -gt 0 ]; then printf '\nfailed: %s' "${failed[@]}"; echo; exit 1; fi
printf '\nall of them held\n'
