import { statSync } from 'node:fs'
import { win32 } from 'node:path'

/** How a command is started on Windows; see `windowsCommand`. */
export interface Spawnable {
  file: string
  args: readonly string[]
  /** Whether the arguments are quoted already. */
  isVerbatim: boolean
}

/** Characters that cmd.exe gives a meaning, inside quotes too. */
const META = /[()\][%!^"`<>&|;, *?]/g

/**
 * Returns what starts a command on Windows. Node's `spawn` finds programs (`.exe`, `.com`) alone:
 * `npm` is a file `npm.cmd`, which only cmd.exe runs, and Node refuses to start such a file without
 * it (EINVAL), since cmd.exe reads its arguments again.
 *
 * @param isFile whether a path is that of a file
 */
export function windowsCommand(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  isFile: (path: string) => boolean = isExistingFile,
): Spawnable {
  const path = findProgram(name, env, isFile)
  if (path === undefined || !/\.(?:cmd|bat)$/i.test(path))
    return { file: path ?? name, args, isVerbatim: false }
  const line = [escapeMeta(win32.normalize(path)), ...args.map(scriptArgument)].join(' ')
  const shell = variable(env, 'ComSpec') || 'cmd.exe'
  return { file: shell, args: ['/d', '/s', '/c', `"${line}"`], isVerbatim: true }
}

/**
 * Returns an argument of a script. cmd.exe reads it twice: when it starts the script, and where the
 * script passes it on, as `npm.cmd` does. A plain word stays as it is, for scripts that compare it.
 */
function scriptArgument(arg: string): string {
  return /^[\w.:@+/\\-]+$/.test(arg) ? arg : escapeMeta(escapeMeta(quote(arg)))
}

/** Returns the file that Windows would start: the first in the folders of PATH, with the extensions of PATHEXT. */
function findProgram(
  name: string,
  env: NodeJS.ProcessEnv,
  isFile: (path: string) => boolean,
): string | undefined {
  const extensions = (variable(env, 'PATHEXT') || '.COM;.EXE;.BAT;.CMD').split(';').filter(Boolean)
  const known = extensions.some((extension) => name.toLowerCase().endsWith(extension.toLowerCase()))
  const endings = known ? ['', ...extensions] : extensions
  const hasFolder = /[\\/:]/.test(name)
  const folders = hasFolder ? [''] : ['.', ...(variable(env, 'PATH') ?? '').split(';').filter(Boolean)]
  const paths = folders.flatMap((folder) =>
    endings.map((ending) => (folder === '' ? name : win32.join(folder, name)) + ending),
  )
  return paths.find(isFile)
}

/** Names of variables ignore case on Windows, but not in a copy of the environment. */
function variable(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return Object.entries(env).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1]
}

/** Quotes an argument for the C runtime: backslashes are doubled only before a quote. */
function quote(arg: string): string {
  let quoted = ''
  let backslashes = 0
  for (const character of arg) {
    if (character === '"') quoted += '\\'.repeat(backslashes + 1)
    backslashes = character === '\\' ? backslashes + 1 : 0
    quoted += character
  }
  return `"${quoted}${'\\'.repeat(backslashes)}"`
}

function escapeMeta(text: string): string {
  return text.replace(META, '^$&')
}

function isExistingFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
}
