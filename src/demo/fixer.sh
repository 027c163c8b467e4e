# The demo's fixer: a script in place of an agent. It reads what the review said and edits the worktree; committing,
# testing, pushing, answering and asking for the next review is remand's work.
prompt=$(cat)
sleep 0.7

edit() { # file, sed expression
    sed "$2" "$1" >"$1.new"
    cat "$1.new" >"$1"
    rm "$1.new"
}

case $prompt in
*banner.txt*)
    edit banner.txt 's/.*/*&*/'
    did="One more star on each side."
    ;;
*greet.sh*)
    edit greet.sh 's/\$1/${1:-you}/'
    echo '[ "$(greet)" = "Hello, you!" ] || exit 1' >>test.sh
    did="Without a name it greets you, and a test says so."
    ;;
*leap.sh*)
    edit leap.sh 's/-eq 0 \]; then/-eq 0 ] \&\& { [ $((year % 100)) -ne 0 ] || [ $((year % 400)) -eq 0 ]; }; then/'
    did="A century is a leap year only when 400 divides it."
    ;;
*)
    echo "nothing that this script knows how to fix" >&2
    exit 1
    ;;
esac

# One answer for each finding that the prompt lists, each a line `f1 (high, logic)` or `j1.1 (medium, logic)`.
answers=$(printf '%s\n' "$prompt" |
    sed -n "s/^\([fj][0-9.]*\) ([a-z]*, [a-z]*)\$/{\"id\": \"\1\", \"answer\": \"fixed\", \"reason\": \"$did\"}/p" | paste -s -d , -)
printf '```json\n{ "answers": [%s] }\n```\n' "$answers"
