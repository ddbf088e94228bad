import t from 'tap'
import { ServiceError } from '../src/errors.ts'
import { asServiceError } from '../src/replies/error-replies.ts'
import { StoreUnavailable } from '../src/store/engine.ts'
import { describeFailure, insteadOf, Unavailable } from '../src/util/expected-errors.ts'

t.test('an expected error ends a program with its message, a bug with its stack', async (t) => {
  t.equal(describeFailure(new StoreUnavailable('the disk is full')), 'the disk is full')
  t.equal(describeFailure(Object.assign(new Error('EACCES'), { syscall: 'open' })), 'EACCES')
  t.match(describeFailure(new TypeError('x is not a function')), /^TypeError: x is not a function\n +at /)
  t.equal(describeFailure('thrown'), 'thrown')
})

t.test('only what may help when tried again is unavailable', async (t) => {
  class AnotherUnavailable extends Unavailable {}
  t.equal(asServiceError(new AnotherUnavailable('gone')).code, 'unavailable')
  t.equal(asServiceError(new TypeError('gone')).code, 'internal')
  t.equal(asServiceError(new ServiceError('read_only')).code, 'read_only')
})

t.test('insteadOf passes on errors of other classes', async (t) => {
  t.equal(await Promise.reject(new StoreUnavailable('gone')).catch(insteadOf(Unavailable, 1)), 1)
  await t.rejects(Promise.reject(new TypeError('gone')).catch(insteadOf(Unavailable, 1)), TypeError)
})
