import { type Argon2Parameters, argon2, randomBytes, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { limitConcurrency } from '../util/limit-concurrency.ts'

const derive = promisify(argon2)

/** KiB, passes and lanes, as OWASP's password storage cheat sheet recommends. */
const COST = { memory: 19_456, passes: 2, parallelism: 1 }
const SALT_BYTES = 16
const HASH_BYTES = 32
/**
 * Hashes run in Node's few threads, which files need too. This queue is fair and short: `createBudget` admits one attempt
 * of an address at a time.
 */
const inTurn = limitConcurrency(2)

export const MIN_PASSWORD_LENGTH = 8
export const MAX_PASSWORD_BYTES = 1024

/** What is stored of a password: `$argon2id$v=19$m=…,t=…,p=…$salt$hash`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const hash = await run({ message: Buffer.from(password), nonce: salt, tagLength: HASH_BYTES, ...COST })
  return format(salt, hash)
}

/**
 * Whether the password is the one that was stored. Takes the same time whether there is anything stored or not.
 *
 * @param stored null: no such user, or one without a password
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const form = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/-]+)\$([\w+/-]+)$/
  const [, memory, passes, parallelism, salt = '', hash = ''] = form.exec(stored ?? nobody) ?? []
  const expected = Buffer.from(hash, 'base64')
  const actual = await run({
    message: Buffer.from(password),
    nonce: Buffer.from(salt, 'base64'),
    tagLength: expected.length,
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
  })
  return timingSafeEqual(actual, expected) && stored !== null
}

/** What is compared with where nothing is stored: no password is known to have this hash. */
const nobody = format(randomBytes(SALT_BYTES), randomBytes(HASH_BYTES))

function run(parameters: Argon2Parameters): Promise<Buffer> {
  return inTurn(() => derive('argon2id', parameters))
}

function format(salt: Buffer, hash: Buffer): string {
  const { memory, passes, parallelism } = COST
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${encode(salt)}$${encode(hash)}`
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '')
}
