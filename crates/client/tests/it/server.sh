# A server for tests: answers every request but `wait`; dies, exits and tells on demand, and ends at the
# end of its input. It writes down who it is in $PIDS and calls itself $AGENT.
echo $$ >> "$PIDS"
while read -r line; do
    rest=${line#*:}; id=${rest%%,*}
    case $line in
        *'"method":"initialize"'*) echo "{\"id\":$id,\"result\":{\"userAgent\":\"${AGENT:-sh/1.2.3}\"}}" ;;
        *'"method":"initialized"'*) ;;
        *'"method":"die"'*) kill -9 $$ ;;
        *'"method":"exit"'*) exit 0 ;;
        *'"method":"fail"'*) echo "last words" >&2; exit 3 ;;
        *'"method":"silent"'*) exec 1>&-; read -r line; read -r line ;;
        *'"method":"wait"'*) ;;
        *) echo "{\"id\":$id,\"result\":{}}" ;;
    esac
done
