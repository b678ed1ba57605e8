git init -q sub && cd sub && echo a > a && git add a &&
  git -c user.name=a -c user.email=a@b commit -qm first && git log --oneline | grep first
