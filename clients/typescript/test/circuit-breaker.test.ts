import t from 'tap'
import { createCircuitBreaker } from '../src/circuit-breaker.ts'

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
