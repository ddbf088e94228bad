import { readFileSync } from 'node:fs'
import { isSystemError } from './expected-errors.ts'

/** Ids from here on belong to people, not to services (login.defs(5)). */
const FIRST_OF_PEOPLE = 1000

/**
 * Returns the name of an account; undefined where the machine's list of accounts does not have it.
 */
export function accountName(uid: number): string | undefined {
  return accounts().find((account) => account.uid === uid)?.name
}

/** Returns the names of the accounts, other than that of this process, of people who can log in. */
export function otherPeople(self = process.geteuid?.(), file = '/etc/passwd'): string[] {
  return accounts(file)
    .filter(({ uid, shell }) => uid >= FIRST_OF_PEOPLE && uid !== self && !/\/(?:nologin|false)$/.test(shell))
    .map(({ name }) => name)
}

/** Returns the machine's list of accounts: passwd(5). Empty where it cannot be read. */
function accounts(file = '/etc/passwd'): { name: string; uid: number; shell: string }[] {
  try {
    const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
    return lines.map((line) => {
      const [name = '', , uid, , , , shell = ''] = line.split(':')
      return { name, uid: Number(uid), shell }
    })
  } catch (error) {
    if (isSystemError(error)) return []
    throw error
  }
}
