# A server for tests: initialises, then ignores the end of its input and SIGTERM.
trap '' TERM
echo $$ >> "$PIDS"
read -r line
echo '{"id":0,"result":{"userAgent":"sh/1.2.3"}}'
while true; do sleep 1; done
