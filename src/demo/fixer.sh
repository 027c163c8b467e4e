# The demo's fixer: a script in place of an agent. It reads what the review said and edits the worktree;
# committing, testing and asking for the next review is remand's work.
prompt=$(cat)
sleep 1
case $prompt in
*leap.sh*)
    sed 's/if \[ $((year % 4)) -eq 0 \]; then/if [ $((year % 4)) -eq 0 ] \&\& { [ $((year % 100)) -ne 0 ] || [ $((year % 400)) -eq 0 ]; }; then/' leap.sh >leap.new
    cat leap.new >leap.sh
    rm leap.new
    echo "1900 is no leap year any more."
    ;;
*banner.txt*)
    sed 's/.*/*&*/' banner.txt >banner.new
    cat banner.new >banner.txt
    rm banner.new
    echo "One more star on each side."
    ;;
*)
    echo "nothing that this script knows how to fix" >&2
    exit 1
    ;;
esac
