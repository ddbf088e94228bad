import { readFileSync } from 'node:fs'
import { isSystemError } from '../errors.ts'

/**
 * Returns the name of an account; undefined where the machine's list of accounts does not have it.
 */
export function accountName(uid: number): string | undefined {
  try {
    const accounts = readFileSync('/etc/passwd', 'utf8').split('\n')
    return accounts.map((line) => line.split(':')).find(([, , id]) => id === String(uid))?.[0]
  } catch (error) {
    if (isSystemError(error)) return undefined
    throw error
  }
}
