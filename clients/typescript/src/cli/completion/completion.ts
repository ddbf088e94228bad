import { parse } from '../arguments.ts'
import { exitCodes } from '../exit-codes.ts'
import { commandHelp } from '../help/commands.ts'
import { suggest } from '../help/suggest.ts'
import { UsageError } from '../usage-error.ts'
import { scripts } from './scripts.ts'

export const completionOptions = {} as const

/** Runs `commit-status completion`: prints a script for a shell. */
export async function completion(args: string[]): Promise<number> {
  const { positionals } = parse({ args, allowPositionals: true, options: completionOptions })
  const shells = commandHelp.completion.words
  const [name = '', ...more] = positionals
  const shell = shells.find((each) => each === name)
  if (!shell || more.length > 0) {
    const got = name === '' ? '' : `; got "${positionals.join(' ')}"${suggest(name, shells)}`
    throw new UsageError(`expected one of ${shells.join(', ')}${got}`)
  }
  const rows = choices().map((words) => words.join('\t'))
  process.stdout.write(scripts[shell].replace('@CHOICES@', () => rows.join('\n')))
  return exitCodes.success
}

/**
 * Returns what may follow a command: the place, the word, and its meaning. An option with a value
 * is a place too, with an empty word, since nobody else knows the value.
 */
function choices(): string[][] {
  const top = 'commit-status'
  const rows = [
    [top, '--help', 'display help'],
    [top, '--version', 'display the version'],
    [top, 'help', 'display help about a command'],
  ]
  for (const [name, help] of Object.entries(commandHelp)) {
    const place = `${top}/${name}`
    const words: readonly string[] = 'words' in help ? help.words : []
    rows.push([top, name, help.summary], [place, '--help', 'display help'])
    for (const [option, [value, meaning]] of Object.entries(help.options)) {
      rows.push([place, `--${option}`, meaning])
      if (value) rows.push([`${place} --${option}`, ''])
    }
    for (const word of words) rows.push([place, word])
  }
  return rows
}
