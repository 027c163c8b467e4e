. ./leap.sh
status=0
check() {
    if [ "$(is_leap "$1")" != "$2" ]; then
        echo "is_leap $1 returns $(is_leap "$1"), expected $2"
        status=1
    fi
}
check 2023 no
check 2024 yes
check 1900 no
check 2000 yes
exit $status
