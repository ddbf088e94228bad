/** Completion scripts, in which @CHOICES@ stands for lines of place, word and meaning. */
export const scripts = {
  bash: `# shellcheck shell=bash
# Completes the commands and options of commit-status in bash.

_commit-status() {
  local at=commit-status place word IFS=$' \\t\\n'
  # What may follow: a command ("commit-status/wait"), or an option that takes a value ("commit-status/wait --sha").
  local -A choices=()
  while IFS=$'\\t' read -r place word _; do
    choices[$place]+=" $word"
  done <<'CHOICES'
@CHOICES@
CHOICES

  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    # What follows belongs to the command of "run".
    if [[ $word == -- ]]; then COMPREPLY=(); return; fi
    if [[ \${choices[$at/$word]+known} ]]; then at+=/$word; fi
  done

  place="$at \${COMP_WORDS[COMP_CWORD-1]}"
  if [[ ! \${choices[$place]+known} ]]; then place=$at; fi
  mapfile -t COMPREPLY < <(compgen -W "\${choices[$place]}" -- "\${COMP_WORDS[COMP_CWORD]}")
}

# File names where nothing else fits.
complete -o default -F _commit-status commit-status
`,
  zsh: `#compdef commit-status
# Completes the commands and options of commit-status in zsh.

_commit-status() {
  local at=commit-status place word meaning
  # What may follow: a command ("commit-status/wait"), or an option that takes a value ("commit-status/wait --sha").
  local -A choices
  while IFS=$'\\t' read -r place word meaning; do
    choices[$place]+="$word\${meaning:+:$meaning}"$'\\n'
  done <<'CHOICES'
@CHOICES@
CHOICES

  for word in "\${(@)words[2,CURRENT-1]}"; do
    # What follows belongs to the command of "run".
    if [[ $word == -- ]]; then _files; return; fi
    if [[ -n \${choices[$at/$word]} ]]; then at+=/$word; fi
  done

  place="$at $words[CURRENT-1]"
  if [[ -z \${choices[$place]} ]]; then place=$at; fi
  local -a described=(\${(f)choices[$place]})
  # File names where nothing else fits.
  _describe argument described || _files
}

# A file of $fpath is itself the function.
if [[ $funcstack[1] == _commit-status ]]; then
  _commit-status "$@"
else
  compdef _commit-status commit-status
fi
`,
  fish: `# Completes the commands and options of commit-status in fish.

# What may follow: a command ("commit-status/wait"), or an option that takes a value ("commit-status/wait --sha").
set --global __commit_status_choices (string split \\n '@CHOICES@')

function __commit_status_words
    set --local at commit-status
    set --local previous
    for word in (commandline --tokenize --cut-at-cursor --current-process)[2..]
        # What follows belongs to the command of "run".
        test $word = -- && return
        string match --quiet -- "$at/$word"\\t'*' $__commit_status_choices && set at $at/$word
        set previous $word
    end
    set --local place $at
    string match --quiet -- "$at $previous"\\t'*' $__commit_status_choices && set place "$at $previous"
    for choice in $__commit_status_choices
        set --local fields (string split --max 2 \\t -- $choice)
        test "$fields[1]" = $place -a -n "$fields[2]" && printf '%s\\t%s\\n' $fields[2] "$fields[3]"
    end
end

complete --command commit-status --no-files --arguments '(__commit_status_words)'
# File names where nothing else fits.
complete --command commit-status --condition 'not count (__commit_status_words) >/dev/null' --force-files
`,
} as const
