# is_leap YEAR: says yes or no.
is_leap() {
    year=$1

    if [ $((year % 4)) -eq 0 ]; then
        echo yes
    else
        echo no
    fi
}
