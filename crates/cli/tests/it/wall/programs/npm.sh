npm --version && echo '{"name":"t","scripts":{"t":"node -e 1"}}' > package.json && npm run t
