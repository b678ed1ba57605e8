# The lowest, since the tests may run with any.
nice -n 19 true && ionice -c 3 true && taskset 1 true && chrt -b 0 true && prlimit --nofile=100 true
