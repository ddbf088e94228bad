# shellcheck shell=bash
# Completes the commands and options of commit-status-admin in bash.

_commit-status-admin() {
  local at=commit-status-admin place word IFS=$' \t\n'
  # What may follow: a command ("commit-status-admin/user"), or an option that takes a value ("commit-status-admin/user --name").
  local -A choices=()
  while IFS=$'\t' read -r place word _; do
    choices[$place]+=" $word"
  done <<'CHOICES'
@CHOICES@
CHOICES

  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ ${choices[$at/$word]+known} ]]; then at+=/$word; fi
  done

  place="$at ${COMP_WORDS[COMP_CWORD-1]}"
  if [[ ! ${choices[$place]+known} ]]; then place=$at; fi
  mapfile -t COMPREPLY < <(compgen -W "${choices[$place]}" -- "${COMP_WORDS[COMP_CWORD]}")
}

# File names where nothing else fits.
complete -o default -F _commit-status-admin commit-status-admin
