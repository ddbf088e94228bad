import t from 'tap'
import { createCircuitBreaker } from '../src/circuit-breaker.ts'

t.test('the first 401 is why nothing more is sent, and only a token is refused', async (t) => {
  const answer = (status: number, body: string) => ({ status, headers: new Headers(), body })
  const breaker = createCircuitBreaker({ token: true })
  breaker.record(answer(403, 'forbidden'))
  t.equal(breaker.refusal(), null)
  // Several requests can be under way.
  for (const body of ['first', 'second']) breaker.record(answer(401, body))
  t.equal(breaker.refusal()?.body, 'first')

  const anonymous = createCircuitBreaker({ token: false })
  anonymous.record(answer(401, 'a token is needed'))
  t.equal(anonymous.refusal(), null)
})

t.test('a shorter Retry-After does not end a longer pause', async (t) => {
  const breaker = createCircuitBreaker({ token: true })
  const answer = (status: number, seconds: string) => ({
    status,
    headers: new Headers({ 'retry-after': seconds }),
    body: '',
  })
  breaker.record(answer(503, '60'))
  breaker.record(answer(429, '1'))
  const pause = breaker.pause()
  t.equal(pause?.answer.status, 503)
  t.ok((pause?.milliseconds ?? 0) > 50_000)
  breaker.record(answer(429, '120'))
  t.ok((breaker.pause()?.milliseconds ?? 0) > 110_000, 'a longer one replaces it')
})
