#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Which rules of the contract have no test: rules.sh [CONTRACT] [ROOT]. A rule is a list item that begins with
# its number ("- C4b. ..."), in sections 2 to 4; a test holds a rule when its name has it (test_C4b_...).
# Prints a line for each rule with the number of its tests; exits 1 when one has none.
set -eu
root=${2:-$(dirname "$0")/../..}
contract=${1:-$root/docs/CONTRACT.md}
if [ ! -r "$contract" ]; then
    echo "rules: no contract at $contract: name it as the first argument" >&2
    exit 2
fi
tests=$(find "$root/tests" "$root/src" -name '*_test.c' -exec grep -ho 'test_[A-Z][0-9][0-9]*[a-z]*_' {} + | sort)
missing=0
rules=$(sed -n '/^## 2/,/^## 5/p' "$contract" | sed -n 's/^- \**\([A-Z][0-9][0-9]*[a-z]*\)\..*/\1/p')
for rule in $rules; do
    # A test's name occurs where it is defined and in its list.
    count=$(printf '%s\n' "$tests" | grep -c "^test_${rule}_\$" || true)
    printf '%-4s %s\n' "$rule" "$((count / 2))"
    if [ "$count" -eq 0 ]; then
        missing=$((missing + 1))
        echo "rules: $rule has no test" >&2
    fi
done
[ -n "$rules" ] || { echo "rules: no rules found in $contract" >&2; exit 2; }
[ "$missing" -eq 0 ]
