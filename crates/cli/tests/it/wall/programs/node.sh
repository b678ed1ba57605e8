cat > w.js <<'END'
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { fork, execFileSync } = require('child_process');
if (!isMainThread) {
  parentPort.postMessage('worker');
} else if (process.argv[2] === 'child') {
  process.on('message', (number) => { process.send(number + 1); process.disconnect(); });
} else {
  console.log(execFileSync('echo', ['exec']).toString());
  new Worker(__filename).on('message', (word) => {
    const child = fork(__filename, ['child']);
    child.on('message', (number) => {
      if (word === 'worker' && number === 42) console.log('ipc works');
    });
    child.send(41);
  });
}
END
node w.js | grep 'ipc works'
