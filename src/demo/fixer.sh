# The demo's fixer: a script in place of an agent. It reads the task or the review in the prompt and edits the worktree;
# remand commits, tests and pushes the result, replies to comments and requests the next review.
prompt=$(cat)
sleep 0.7

if [ "$REMAND_PHASE" = implement ]; then
    echo 'count_words() { echo $((1 + $(printf %s "$1" | tr -cd " " | wc -c))); }' >words.sh
    printf '%s\n' '. ./words.sh' '[ "$(count_words "two words")" = 2 ] || exit 1' >test.sh
    echo "Added count_words with a test."
    exit
fi

edit() { # file, sed expression
    sed "$2" "$1" >"$1.new"
    cat "$1.new" >"$1"
    rm "$1.new"
}

case $prompt in
*banner.txt*)
    edit banner.txt 's/.*/*&*/'
    did="Added one more star on each side."
    ;;
*greet.sh*)
    edit greet.sh 's/\$1/${1:-you}/'
    echo '[ "$(greet)" = "Hello, you!" ] || exit 1' >>test.sh
    did="Without a name, it now greets you; added a test."
    ;;
*words.sh*)
    echo 'count_words() (set -f; set -- $1; echo $#)' >words.sh
    echo '[ "$(count_words "")" = 0 ] || exit 1' >>test.sh
    did="An empty text now has no words; added a test."
    ;;
*leap.sh*)
    edit leap.sh 's/-eq 0 \]; then/-eq 0 ] \&\& { [ $((year % 100)) -ne 0 ] || [ $((year % 400)) -eq 0 ]; }; then/'
    did="A century is a leap year only if it is divisible by 400."
    ;;
*)
    echo "this script cannot fix that" >&2
    exit 1
    ;;
esac

# One answer per finding in the prompt, where each has a line such as `f1 (high, logic)` or `j1.1 (medium, logic)`.
answers=$(printf '%s\n' "$prompt" |
    sed -n "s/^\([fj][0-9.]*\) ([a-z]*, [a-z]*)\$/{\"id\": \"\1\", \"answer\": \"fixed\", \"reason\": \"$did\"}/p" | paste -s -d , -)
printf '```json\n{ "answers": [%s] }\n```\n' "$answers"
