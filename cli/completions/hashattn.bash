# Completion of hashattn for bash: the tool itself says what a word can become (cli/shared/options/complete.h).
# Installed as share/bash-completion/completions/hashattn.

_hashattn() {
    local words=() word=${COMP_WORDS[COMP_CWORD]} i line pattern prefix=
    # bash splits --name=value at the equals sign.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ ${#words[@]} -gt 0 && (${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == =) ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    if [[ $COMP_CWORD -gt 1 && ($word == = || ${COMP_WORDS[COMP_CWORD - 1]} == =) ]]; then
        prefix=${words[${#words[@]} - 1]%%=*}=
        word=${word#=}
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        :files)
            compopt -o filenames
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
            ;;
        :files*)
            compopt -o filenames
            pattern="!*.${line#:files }"
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -X "$pattern" -- "$word"; compgen -d -- "$word")
            ;;
        :directories)
            compopt -o filenames
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word")
            ;;
        *)
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$prefix"}")
            ;;
        esac
    done < <("${1/#\~/$HOME}" "${words[@]}" --complete 2>/dev/null)
}
complete -F _hashattn hashattn
