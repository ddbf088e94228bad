#compdef commit-status-admin
# Completes the commands and options of commit-status-admin in zsh.

_commit-status-admin() {
  local at=commit-status-admin place word meaning
  # What may follow: a command ("commit-status-admin/user"), or an option that takes a value ("commit-status-admin/user --name").
  local -A choices
  while IFS=$'\t' read -r place word meaning; do
    choices[$place]+="$word${meaning:+:$meaning}"$'\n'
  done <<'CHOICES'
@CHOICES@
CHOICES

  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ -n ${choices[$at/$word]} ]]; then at+=/$word; fi
  done

  place="$at $words[CURRENT-1]"
  if [[ -z ${choices[$place]} ]]; then place=$at; fi
  local -a described=(${(f)choices[$place]})
  # File names where nothing else fits.
  _describe argument described || _files
}

# A file of $fpath is itself the function.
if [[ $funcstack[1] == _commit-status-admin ]]; then
  _commit-status-admin "$@"
else
  compdef _commit-status-admin commit-status-admin
fi
