# A job is stopped when the shell says so, whatever the machine's load.
set -m
become() {
  for _ in $(seq 2000); do
    # In a pipe `jobs` would be another shell, which is told nothing.
    jobs > state
    grep -q "$1" state && return 0
    read -r -t 0.01 _
  done
  cat state
  return 1
}
sleep 60 &
kill -STOP %1
become Stopped || exit 1
bg %1
become Running || exit 1
kill -KILL %1
wait %1
stty size && tty
