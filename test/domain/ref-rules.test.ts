import t from 'tap'
import { isBypassedBy, type RefRule, validateRule } from '../../src/domain/ref-rules.ts'

/** Returns a rule that this many users may bypass. */
function ruleWith(users: number): RefRule {
  const bypass = Array.from({ length: users }, (_, id) => ({ id, name: `user-${id}` }))
  return { refPattern: 'main', required: ['ci'], bypass }
}

t.test('twenty users may bypass a rule, and no more', async (t) => {
  const full = ruleWith(20)
  t.same(validateRule(full), full)
  t.same(validateRule({ ...full, bypass: [...full.bypass, ...full.bypass] }), full, 'each counts once')
  t.throws(() => validateRule(ruleWith(21)), {
    name: 'Refusal',
    message: '21 users who may bypass; at most 20 are allowed',
  })
})

t.test('who bypasses several rules may bypass each of them', async (t) => {
  t.equal(isBypassedBy([], 0), false)
  t.equal(isBypassedBy([ruleWith(1), ruleWith(2)], 0), true)
  t.equal(isBypassedBy([ruleWith(1), ruleWith(2)], 1), false)
  t.equal(isBypassedBy([ruleWith(2), ruleWith(1)], 1), false)
})
