import type { Command } from 'commander'

/** Returns the command that the words name, and where its own words begin. */
function findCommand(program: Command, args: readonly string[]): { command: Command; start: number } {
  let command = program
  let start = args[0] === '--env-file' ? 2 : Number(args[0]?.startsWith('--env-file=') ?? false)
  for (;;) {
    const next = command.commands.find((known) => known.name() === args[start])
    if (!next) return { command, start }
    command = next
    start++
  }
}

/** Returns the option of the client's command that means the first argument of a command. */
function optionOf({ registeredArguments: [first], parent }: Command): '--repo' | '--user' | undefined {
  if (first?.name() === 'owner/name') return '--repo'
  const isUser = first?.name() === 'user' || (first?.name() === 'name' && parent?.name() === 'user')
  return isUser ? '--user' : undefined
}

/**
 * Moves the value of `--repo` or `--user` to the place of the first argument, where that is a
 * repository or a user and the command has no such option, so that what is given as an option to
 * one command can be given so to all.
 */
export function placeNamedArguments(program: Command, args: readonly string[]): string[] {
  const { command, start } = findCommand(program, args)
  const option = optionOf(command)
  if (option === undefined || command.options.some(({ long }) => long === option)) return [...args]
  const end = args.indexOf('--')
  const position = args.findIndex(
    (word, index) =>
      index >= start && (end < 0 || index < end) && (word === option || word.startsWith(`${option}=`)),
  )
  if (position < 0) return [...args]
  const word = args[position] ?? ''
  const isJoined = word !== option
  const value = isJoined ? word.slice(option.length + 1) : args[position + 1]
  if (value === undefined) return [...args]
  const others = args.toSpliced(position, isJoined ? 1 : 2)
  return others.toSpliced(start, 0, value)
}
