import { Refusal } from '../domain/refusal.ts'
import { memoizePromise } from '../util/memoize.ts'
import { MAX_PASSWORD_BYTES } from './password.ts'

export const MIN_PASSWORD_LENGTH = 8
/** Number of most common passwords that are refused. */
export const COMMON_PASSWORDS = 10_000
/** Shorter names are part of too many good passwords. */
export const MIN_NAME_LENGTH = 3

const commonPasswords = memoizePromise(loadCommonPasswords)

/**
 * Checks a new password by the rules of NIST SP 800-63B: length, and no value that attackers try
 * first.
 *
 * @param userName the user whose password it will be
 * @throws Refusal with the reason
 */
export async function checkNewPassword(password: string, userName: string): Promise<void> {
  const length = [...password].length
  if (length < MIN_PASSWORD_LENGTH)
    throw new Refusal(
      `the password is ${length} characters long; at least ${MIN_PASSWORD_LENGTH} are required`,
    )
  const bytes = Buffer.byteLength(password)
  if (bytes > MAX_PASSWORD_BYTES)
    throw new Refusal(`the password is ${bytes} bytes long; at most ${MAX_PASSWORD_BYTES} are allowed`)
  const lower = password.toLowerCase()
  if (userName.length >= MIN_NAME_LENGTH && lower.includes(userName.toLowerCase()))
    throw new Refusal(`the password contains the user name "${userName}"; choose another one`)
  if ((await commonPasswords()).has(lower))
    throw new Refusal(
      `the password is one of the ${COMMON_PASSWORDS.toLocaleString('en')} most common ones, which attackers try first; choose another one`,
    )
}

/** Loads the list when it is first needed: it takes 50 ms and some megabytes. */
async function loadCommonPasswords(): Promise<ReadonlySet<string>> {
  const { dictionary } = await import('@zxcvbn-ts/language-common')
  // Sorted by frequency, in lower case.
  return new Set(dictionary['passwords-common'].slice(0, COMMON_PASSWORDS))
}
