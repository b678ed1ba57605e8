# The repository was made outside of the sandbox.
cd ../repository && echo more >> file && git status --short | grep file && git diff | grep more &&
  git log --oneline && git status > /dev/null
