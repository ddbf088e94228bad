import { setTimeout } from 'node:timers/promises'
import { signInForm } from '../../helpers/held-request.ts'
import { requestBytes } from '../../helpers/keep-alive.ts'
import { csrfOf, openPageClient } from '../../helpers/page-client.ts'
import { during, type Loop } from '../parts/attack.ts'
import { type Figures, Tally } from '../parts/figures.ts'
import { whileReading } from '../parts/readers.ts'
import type { Fixture } from './fixture.ts'

const SIGN_INS = 20
/** Addresses that guess at a time. A right attempt waits for one comparison of each at most. */
const GUESSERS = 20
/** Milliseconds. */
const LIMIT = 4_000

/**
 * Guesses passwords from an address that is blocked, and from many that are not, while somebody
 * else signs in.
 */
export async function floodSignIn(fixture: Fixture): Promise<Figures[]> {
  const { url } = fixture
  const guesser = openPageClient(url)
  const csrf = csrfOf((await guesser.get('/login')).body)
  const { headers, body } = signInForm({ cookie: guesser.cookieHeader(), csrf }, 'alice', 'a wrong guess')
  const guess = requestBytes('POST', '/login', headers, body).toString()
  const common = { kind: 'loop', url, seconds: 120, requests: [guess] } as const
  const attacks: Loop[] = [
    { ...common, addresses: ['127.0.0.2'], connections: 30 },
    {
      ...common,
      addresses: Array.from({ length: 240 }, (_, index) => `127.0.1.${index + 1}`),
      connections: GUESSERS,
      // None of them is blocked before the next one takes its turn.
      perAddress: 20,
    },
  ]
  const signIn = async () => {
    const { status } = await openPageClient(url).signIn('alice')
    return status === 303 ? null : `${status}`
  }
  const [alone, signIns] = [new Tally(), new Tally()]
  for (let index = 0; index < SIGN_INS; index++) await alone.measure(signIn)
  const reads = await during(attacks, async () => {
    await setTimeout(3_000)
    return whileReading(fixture.read, async () => {
      for (let index = 0; index < SIGN_INS; index++) {
        await signIns.measure(signIn)
        await setTimeout(300)
      }
    })
  })
  return [
    { name: 'sign-in: right passwords, before the attack', ...alone },
    signIns.promise('sign-in: right passwords, from another address', 1, LIMIT),
    { name: 'sign-in: API reads', ...reads },
  ]
}
