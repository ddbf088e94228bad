import t from 'tap'
import { createUserFinder } from '../../src/web/forms/find-user.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'

t.test('nobody finds out names by sending known ones in between', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id } = await asAdministrator(store).users.create('alice')
  const find = createUserFinder(store)
  const many = /^you have sent many names/
  for (let index = 0; index < 30; index++) {
    t.match(await find(1, 'ALICE'), { id }, 'a known name takes no place, and gives none back')
    await t.rejects(find(1, `nobody-${index}`), { message: `there is no user "nobody-${index}"` })
  }
  await t.rejects(find(1, 'nobody'), { message: many })
  await t.rejects(find(1, 'alice'), { message: many })
  t.match(await find(2, 'alice'), { id }, 'others are not limited')

  for (const name of ['', 'not a name!', 'Bob', 'bob', 'BOB', 'bob'])
    for (let index = 0; index < 5; index++)
      await t.rejects(find(4, name), { message: `there is no user "${name}"` })
  await t.rejects(find(4, 'carol'), { message: many }, 'each name counts, however often and in whatever case')

  const atOnce = Array.from({ length: 40 }, (_, index) => find(3, `nobody-${index}`))
  const outcomes = await Promise.allSettled(atOnce)
  const refused = outcomes.filter((it) => it.status === 'rejected' && many.test(it.reason.message))
  t.equal(refused.length, 10, 'also of names that are sent at once')
})
