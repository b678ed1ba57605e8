set -e
echo a > a
chmod 755 a
cp -a a b
ln -s a l
tar cf t.tar a b l
mkdir x
tar xf t.tar -C x
install -m 644 a i
touch -d 2020-01-01 a
sort --parallel=2 a | xargs -n1 echo | tee o
timeout 5 true
nice -n 5 true
find . -name o
(ulimit -n 100)
flock a true
rm "$(mktemp)"
nohup true
kill -0 $$
mkfifo f
echo x > f &
cat f
wait
