cat > p.py <<'END'
import asyncio
import sqlite3
import subprocess
import tempfile


async def main():
    child = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
    assert (await child.communicate())[0] == b"hi\n"


asyncio.run(main())
connection = sqlite3.connect("x.db")
connection.execute("create table t(a)")
connection.commit()
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
END
python3 p.py
