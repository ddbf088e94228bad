import { limitConcurrency } from '../util/limit-concurrency.ts'
import { isAllowedKey } from './config-allowlist.ts'
import { RepositoryUnavailable, unavailable } from './repository-health.ts'
import { ANY_WORK_TREE, decodeLatin1, readGit } from './run-git.ts'

/** A setting as git reads it. */
export interface Setting {
  /** Section and name in lower case. The bytes are decoded as Latin-1, because they may not be UTF-8. */
  key: string
  /** Decoded as Latin-1. null if the key has no value, which git reads as true. */
  value: string | null
  /** Path of the file that contains the setting. */
  file: string
}

const inTurn = limitConcurrency(16)
const MAX_KEYS_IN_MESSAGE = 5

/**
 * Reads a repository's own configuration as git does, including included files.
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable if git cannot read it
 */
export async function readSettings(path: string): Promise<Setting[]> {
  const args = [ANY_WORK_TREE, 'config', '--null', '--show-scope', '--show-origin', '--list']
  const output = await inTurn(() => readGit(path, args)).catch((error: unknown) => {
    throw unavailable(path, error)
  })
  const fields = output.split('\0')
  const settings: Setting[] = []
  for (let index = 0; index + 2 < fields.length; index += 3) {
    const [scope, origin = '', setting = ''] = fields.slice(index, index + 3)
    if (scope === 'command') continue
    const end = setting.indexOf('\n')
    settings.push({
      key: end === -1 ? setting : setting.slice(0, end),
      value: end === -1 ? null : setting.slice(end + 1),
      file: decodeLatin1(origin.replace(/^file:/, '')),
    })
  }
  return settings
}

/**
 * Checks that no setting can make git run a program or read a file that the repository's owner chose: every key must be
 * allowed by `isAllowedKey`.
 *
 * @throws RepositoryUnavailable naming the keys and their files
 */
export function checkSettings(path: string, settings: readonly Setting[]): void {
  const found = settings
    .filter(({ key }) => !isInclude(key) && !isAllowedKey(key))
    .map(({ key, file }) => `${JSON.stringify(decodeLatin1(key))} in ${file}`)
  if (found.length === 0) return
  const refused = [...new Set(found)]
  const named = refused.slice(0, MAX_KEYS_IN_MESSAGE).join(', ')
  const others = refused.length - MAX_KEYS_IN_MESSAGE
  throw new RepositoryUnavailable(
    `the repository ${path} is not served because its configuration sets ${named}${others > 0 ? ` and ${others} more` : ''}: keys that let git run ` +
      'programs or read other files, or that are unknown. Remove them: git config --file FILE --unset-all KEY',
  )
}

/** Returns whether the setting includes another file. The settings of that file follow in the list. */
export function isInclude(key: string): boolean {
  return key === 'include.path' || (key.startsWith('includeif.') && key.endsWith('.path'))
}

/**
 * Formats settings in the syntax of git's configuration files.
 *
 * @returns text to be encoded as Latin-1
 */
export function formatSettings(settings: readonly Setting[]): string {
  return settings
    .map(({ key, value }) => {
      const [first, last] = [key.indexOf('.'), key.lastIndexOf('.')]
      const [section, name] = [key.slice(0, first), key.slice(last + 1)]
      const subsection = first === last ? '' : ` "${escaped(key.slice(first + 1, last))}"`
      const assignment = value === null ? '' : ` = "${escaped(value).replaceAll('\n', '\\n')}"`
      return `[${section}${subsection}]\n\t${name}${assignment}\n`
    })
    .join('')
}

function escaped(text: string): string {
  return text.replace(/[\\"]/g, '\\$&')
}
