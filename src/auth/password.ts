import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { limitConcurrency } from '../schedule/limit-concurrency.ts'
import type { User } from '../store/accounts/user-rows.ts'

const derive = promisify(argon2)

/** Memory in KiB, passes and lanes, as recommended by OWASP's password storage cheat sheet. */
const COST = { memory: 19_456, passes: 2, parallelism: 1 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/**
 * Leaves threads of Node's small pool to file access. A plain queue is fair here, since the budget
 * admits one attempt per address at a time.
 */
const limited = limitConcurrency(2)

export const MAX_PASSWORD_BYTES = 1024

/** Hashes a password for storage: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await deriveHash({
    message: Buffer.from(password),
    nonce: salt,
    tagLength: HASH_BYTES,
    ...COST,
  })
  return format(salt, hash)
}

/**
 * Returns whether the password matches the stored hash. Takes the same time when there is no hash.
 *
 * @param stored null when there is no such user or the user has no password
 */
async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const form = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/-]+)\$([\w+/-]+)$/
  const [, memory, passes, parallelism, salt = '', hash = ''] = form.exec(stored ?? DUMMY) ?? []
  const expected = Buffer.from(hash, 'base64')
  const actual = await deriveHash({
    message: Buffer.from(password),
    nonce: Buffer.from(salt, 'base64'),
    tagLength: expected.length,
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
  })
  return timingSafeEqual(actual, expected) && stored !== null
}

/**
 * Returns the user if the password is right. Takes the same time, and gives the same result as a
 * wrong password, if there is no such user or the user is locked.
 */
export async function authenticate(user: User | undefined, password: string): Promise<User | null> {
  const possible = Buffer.byteLength(password) <= MAX_PASSWORD_BYTES
  const right = await verifyPassword(possible ? password : '', user?.passwordHash ?? null)
  return user && user.lockedAt === null && right && possible ? user : null
}

/** Compared against when there is no stored hash. Random, so no known password matches it. */
const DUMMY = format(randomBytes(SALT_BYTES), randomBytes(HASH_BYTES))

function deriveHash(parameters: Argon2Parameters): Promise<Buffer> {
  return limited(() => derive('argon2id', parameters))
}

function format(salt: Buffer, hash: Buffer): string {
  const { memory, passes, parallelism } = COST
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${encode(salt)}$${encode(hash)}`
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}
