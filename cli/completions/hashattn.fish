# Completion of hashattn for fish: the tool itself says what a word can become (cli/shared/options/complete.h).
# Installed as share/fish/vendor_completions.d/hashattn.fish.

function __hashattn_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l prefix (string match -r '^-[^=]*=' -- $word) # --name=, before a path
    set -l path (string replace -r '^-[^=]*=' '' -- $word)
    for line in ($words $word --complete 2>/dev/null)
        switch $line
            case ':files *'
                printf "$prefix%s\n" (__fish_complete_suffix $path .(string sub -s 8 -- $line))
            case ':files'
                printf "$prefix%s\n" (__fish_complete_path $path)
            case ':directories'
                printf "$prefix%s\n" (__fish_complete_directories $path)
            case '*'
                echo $line
        end
    end
end
complete -c hashattn -f -a '(__hashattn_complete)'
