set -m
sleep 60 &
kill -STOP %1
jobs -l | grep -i sleep
bg %1
kill %1
wait %1
stty size && tty
