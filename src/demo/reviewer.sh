# The demo's reviewer: a script in place of an agent. It reads the prompt on stdin and prints its review.
# Open findings in the prompt, one line each, such as `f1 (high, logic)`; they are resolved when the test passes.
resolved=$(sed -n 's/^\(f[0-9][0-9]*\) ([a-z]*, [a-z]*)$/{"id": "\1", "status": "resolved"}/p' | sort -u | paste -s -d , -)
sleep 0.7
branch=$REMAND_BRANCH

answer() { # verdict count severity summary findings previous
    printf 'REVIEW_RESULT: %s\nFINDINGS_COUNT: %s\nSEVERITY: %s\nSUMMARY: %s\n\n' "$1" "$2" "$3" "$4"
    printf '```json\n{"findings": [%s], "previous": [%s]}\n```\n' "$5" "$6"
}

if [ "$branch" = banner ]; then
    # Some reviewers are never satisfied: this shows the limit on fixes.
    wish=$((3 + $(git rev-list --count "$REMAND_BASE..HEAD")))
    answer changes_requested 1 medium "The banner still looks too plain." \
        "{\"severity\": \"medium\", \"category\": \"style\", \"path\": \"banner.txt\", \"line\": 1, \"text\": \"It should have $wish stars around it\", \"suggestion\": \"More stars\"}"
elif [ -e words.sh ] && . ./words.sh && [ "$(count_words "")" != 0 ]; then
    answer changes_requested 1 high "An empty text is not handled." \
        '{"severity": "high", "category": "logic", "path": "words.sh", "line": 1, "text": "`count_words` of an empty text prints 1", "suggestion": "Count the words, not the spaces"}'
elif output=$(sh test.sh 2>&1); then
    answer approved 0 none "The tests pass and the code does what its title says." "" "$resolved"
else
    first=$(printf '%s\n' "$output" | head -n 1 | tr -d '"\\')
    answer changes_requested 1 high "The test fails." \
        "{\"severity\": \"high\", \"category\": \"logic\", \"path\": \"leap.sh\", \"line\": 5, \"text\": \"$first\", \"suggestion\": \"A century is a leap year only if it is divisible by 400\"}"
fi
