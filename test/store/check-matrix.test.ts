import { test } from 'tap'
import type { StatusState } from '../../src/domain/states.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

const STATES: readonly StatusState[] = [
  'success',
  'pending',
  'failure',
  'error',
  'success',
  'success',
  'success',
]
const shaOf = (position: number) => String(position).padStart(40, '0')

for (const database of databases) {
  test(`checks by commit, ${database.name}`, async (t) => {
    const { store } = await openTestStore(t, database)
    const place = { owner: 'acme', visibility: 'public', objectFormat: 'sha1', path: '/nonexistent' } as const
    const { id } = await asAdministrator(store).repositories.create({ ...place, name: 'repo' })
    const { id: other } = await asAdministrator(store).repositories.create({ ...place, name: 'other' })
    const report = (position: number, context: string, state: StatusState, repositoryId = id) =>
      store.statuses.report({
        repositoryId,
        sha: shaOf(position),
        context,
        state,
        description: null,
        target_url: `https://ci.example.org/${position}`,
      })
    const matrix = (shas: readonly string[]) => store.matrix.listColumns(id, shas)
    t.same(await matrix([]), [])
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
    const columns = await matrix(shas)
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
    const broken = (await store.matrix.listHistories(id, shas, ['b broken'])).get('b broken') ?? []
    t.match(broken[2], { state: 'error', target_url: 'https://ci.example.org/2', updated_at: Number })
    t.same(await store.matrix.listHistories(id, shas, []), new Map())

    for (let index = 0; index < 60; index++) await report(5, `e ${String(index).padStart(2, '0')}`, 'success')
    await report(5, 'z', 'failure')
    const many = await matrix(shas)
    t.equal(many.length, 65)
    t.same(
      many.slice(0, 5).map(({ context }) => context),
      ['b broken', 'c again', 'z', 'd new', 'a fine'],
    )
    t.equal((await matrix([shaOf(5)])).length, 61)

    // Not the same contexts on each commit.
    const contexts = Array.from({ length: 230 }, (_, index) => `f ${String(index).padStart(3, '0')}`)
    const reported = contexts.flatMap((context, index) =>
      [40, 41, 42]
        .filter((_, offset) => (index + offset) % 5 !== 0)
        .map((position) => ({ context, position, state: STATES[(index * position) % STATES.length] })),
    )
    await Promise.all(
      reported.map(({ context, position, state }) => report(position, context, state ?? 'error')),
    )
    const large = await matrix([shaOf(40), shaOf(41), shaOf(42)])
    // More than one statement reads.
    const older = Array.from({ length: 30 }, (_, index) => shaOf(42 - index))
    const histories = await store.matrix.listHistories(id, older, contexts)
    for (const { context, cells } of large) {
      const found = Array.from(histories.get(context) ?? [], (cell) => cell?.state)
      t.same(found, [...Array.from([2, 1, 0], (index) => cells[index]?.state), ...Array(27)])
    }
    const rankOf = (context: string) => {
      const completed = reported.find((cell) => cell.context === context && cell.state !== 'pending')
      return completed === undefined ? 1 : completed.state === 'success' ? 2 : 0
    }
    const ranked = contexts.toSorted((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1))
    t.same(
      large.map(({ context }) => context),
      ranked,
    )
    t.same(
      large.flatMap(({ context, cells }) =>
        cells.flatMap((cell, index) => (cell ? [{ context, position: 40 + index, state: cell.state }] : [])),
      ),
      reported
        .filter(({ context }) => ranked.includes(context))
        .toSorted((a, b) => ranked.indexOf(a.context) - ranked.indexOf(b.context)),
    )
  })
}
