import { Argument, type Command, type Option } from 'commander'
import { shellQuote } from '../../util/shell-quote.ts'
import { print } from '../parts/output.ts'

const NAME = 'commit-status-admin'
/** How the shells differ: the words before the current one, the last of them, how `choices` are offered, and what else it takes. */
const SHELLS = {
  bash: {
    words: `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`,
    previous: `\${COMP_WORDS[COMP_CWORD-1]}`,
    offer: `COMPREPLY=($(compgen -W "\${choices[*]%%:*}" -- "\${COMP_WORDS[COMP_CWORD]}"))`,
    first: '',
    last: `complete -o default -F _${NAME} ${NAME}`,
  },
  zsh: {
    words: `"\${(@)words[2,CURRENT-1]}"`,
    previous: '$words[CURRENT-1]',
    offer: '_describe argument choices || _files',
    first: `#compdef ${NAME}\n`,
    // A file of $fpath is itself the function.
    last: `if [[ $funcstack[1] == _${NAME} ]]; then _${NAME} "$@"; else compdef _${NAME} ${NAME}; fi`,
  },
}

export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>').choices(Object.keys(SHELLS)))
    .description('print a script by which the shell completes commands and options')
    .action((shell: keyof typeof SHELLS) => print(scriptFor(shell, program)))
}

function scriptFor(shell: keyof typeof SHELLS, program: Command): string {
  const { words, previous, offer, first, last } = SHELLS[shell]
  const commands = commandsOf(program)
  const values = [{ path: '*', command: program }, ...commands].flatMap(({ path, command: { options } }) =>
    options
      .filter((option) => option.required)
      .map(({ long, argChoices = [] }) => `${path}' ${long}') choices=(${argChoices.join(' ')}) ;;`),
  )
  const everywhere = [...program.options.map(describeOption), ['--help', 'display help']]
  return `${first}_${NAME}() {
  local at= word
  local -a choices
  for word in ${words}; do
    case "$at/$word" in
      ${commands.map(({ path }) => path).join(' | ')}) at+=/$word ;;
    esac
  done
  case "$at ${previous}" in
    ${values.join('\n    ')}
    *)
      choices=(${quote(everywhere)})
      case $at in
        '') choices+=(${quote(program.commands.map(describeCommand))}) ;;
        ${commands.map(({ path, command }) => `${path}) choices+=(${choicesOf(command)}) ;;`).join('\n        ')}
      esac ;;
  esac
  ${offer}
}
${last}`
}

/** Returns all commands below one, each with the names that lead to it, such as `/user/create`. */
function commandsOf(parent: Command, above = ''): { path: string; command: Command }[] {
  return parent.commands.flatMap((command) => {
    const path = `${above}/${command.name()}`
    return [{ path, command }, ...commandsOf(command, path)]
  })
}

/** Returns what may follow a command, besides values that only the administrator knows. */
function choicesOf({ commands, registeredArguments, options }: Command): string {
  const ofArguments = registeredArguments.flatMap(({ argChoices = [] }) =>
    argChoices.map((choice) => [choice]),
  )
  return quote([...commands.map(describeCommand), ...ofArguments, ...options.map(describeOption)])
}

function describeCommand(command: Command): string[] {
  return [command.name(), command.description()]
}

function describeOption({ long, flags, description }: Option): string[] {
  return [long ?? flags, description]
}

/** Returns words with their meanings as the shells read them: `'word:meaning'`. */
function quote(choices: string[][]): string {
  return choices.map((choice) => shellQuote(choice.join(':'))).join(' ')
}
