# The demo's reviewer: a script in place of an agent. The prompt comes on stdin, the answer goes to stdout.
# The open findings that the prompt lists by their ids, each a line `f1 (high, logic)`; what passes the test resolves them.
resolved=$(sed -n 's/^\(f[0-9][0-9]*\) ([a-z]*, [a-z]*)$/{"id": "\1", "status": "resolved"}/p' | sort -u | paste -s -d , -)
sleep 0.7
branch=$REMAND_BRANCH

answer() { # verdict count severity summary findings previous
    printf 'REVIEW_RESULT: %s\nFINDINGS_COUNT: %s\nSEVERITY: %s\nSUMMARY: %s\n\n' "$1" "$2" "$3" "$4"
    printf '```json\n{"findings": [%s], "previous": [%s]}\n```\n' "$5" "$6"
}

if [ "$branch" = banner ]; then
    # Some reviewers are never satisfied. The bound is there for them.
    wish=$((3 + $(git rev-list --count "$REMAND_BASE..HEAD")))
    answer changes_requested 1 medium "The banner still looks too plain." \
        "{\"severity\": \"medium\", \"category\": \"style\", \"path\": \"banner.txt\", \"line\": 1, \"text\": \"I would like $wish stars around it\", \"suggestion\": \"More stars\"}"
elif output=$(sh test.sh 2>&1); then
    answer approved 0 none "The tests pass and the code does what its title says." "" "$resolved"
else
    first=$(printf '%s\n' "$output" | head -n 1 | tr -d '"\\')
    answer changes_requested 1 high "The test fails." \
        "{\"severity\": \"high\", \"category\": \"logic\", \"path\": \"leap.sh\", \"line\": 5, \"text\": \"$first\", \"suggestion\": \"A century is a leap year only when 400 divides it\"}"
fi
