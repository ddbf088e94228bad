import { test } from 'tap'
import type { StatusState } from '../../src/store/tables.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

const shaOf = (position: number) => String(position).padStart(40, '0')

for (const database of databases) {
  test(`checks by commit, ${database.name}`, async (t) => {
    const { store } = await openTestStore(t, database)
    const place = { owner: 'acme', visibility: 'public', objectFormat: 'sha1', path: '/nonexistent' } as const
    const { id } = await store.repositories.create({ ...place, name: 'repo' })
    const { id: other } = await store.repositories.create({ ...place, name: 'other' })
    const report = (position: number, context: string, state: StatusState, repositoryId = id) =>
      store.statuses.report({
        repositoryId,
        sha: shaOf(position),
        context,
        state,
        description: null,
        targetUrl: `https://ci.example.org/${position}`,
      })
    t.same(await store.matrix(id, []), { columns: [], omitted: 0 })
    // The newest commit has position 0.
    await report(0, 'a fine', 'success')
    await report(1, 'a fine', 'failure')
    await report(2, 'b broken', 'error')
    await report(3, 'b broken', 'success')
    await report(0, 'c again', 'pending')
    await report(1, 'c again', 'failure')
    await report(0, 'd new', 'pending')
    await report(31, 'too old', 'failure')
    await report(0, 'elsewhere', 'failure', other)
    const shas = Array.from({ length: 35 }, (_, position) => shaOf(position))
    const { columns, omitted } = await store.matrix(id, shas)
    t.equal(omitted, 0)
    t.same(
      columns.map(({ context, failing, cells }) => [
        context,
        failing,
        Array.from(cells, (cell) => cell?.state),
      ]),
      [
        ['b broken', true, [undefined, undefined, 'error', 'success']],
        ['c again', true, ['pending', 'failure']],
        ['d new', false, ['pending']],
        ['a fine', false, ['success', 'failure']],
      ],
    )
    t.match(columns[0]?.cells[2], { targetUrl: 'https://ci.example.org/2', updatedAt: Number })

    for (let index = 0; index < 60; index++) await report(5, `e ${String(index).padStart(2, '0')}`, 'success')
    await report(5, 'z', 'failure')
    const many = await store.matrix(id, shas)
    t.equal(many.columns.length, 50)
    t.equal(many.omitted, 15)
    t.same(
      many.columns.slice(0, 5).map(({ context }) => context),
      ['b broken', 'c again', 'z', 'd new', 'a fine'],
    )
    t.equal((await store.matrix(id, [shaOf(5)])).columns.length, 50)
  })
}
