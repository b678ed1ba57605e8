cat > h.js <<'END'
const http = require('http');
const server = http.createServer((_, answer) => answer.end('served'));
server.listen(0, '127.0.0.1', () => {
  http.get({ host: '127.0.0.1', port: server.address().port }, (answer) =>
    answer.on('data', (data) => { console.log(String(data)); process.exit(0); }));
});
END
node h.js | grep served
