import {
  type EventQuery,
  eventFilterForm,
  eventFilterQuery,
  noEvents,
  readEventFilter,
} from '../../events/event-filter.ts'
import { eventList, readEvents } from '../../events/event-list.ts'
import { createAdministeredFinder } from '../../finding/find-administered.ts'
import type { RepositoryRoute } from '../../finding/find-repository.ts'
import { sendPage } from '../../layout/layout.ts'
import { settingsHead } from '../../layout/repository-head.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf } from '../../routing/query.ts'
import { userOf } from '../../session/session-auth.ts'
import { html } from '../../text/html.ts'
import { settingsPath } from '../../text/repository-paths.ts'

interface Route extends RepositoryRoute {
  Querystring: EventQuery
}

/**
 * Registers `/{owner}/{repo}/settings/events`: the audit events of a repository, for its admins.
 */
export async function eventsPage(pages: Pages, context: PageContext): Promise<void> {
  const { store } = context
  const findAdministered = createAdministeredFinder(pages, context)

  pages.get<Route>('/:owner/:repo/settings/events', async (request, reply) => {
    const repository = await findAdministered(request, reply)
    if (!repository) return reply
    const { id, owner, name } = repository
    const user = userOf(request)
    const filter = readEventFilter(request.query)
    const events = filter.problem
      ? null
      : await readEvents(
          (...page) => store.auditLog.latestOf(id, user.id, filter, ...page),
          firstOf(request.query.before),
        )
    if (!events) reply.code(422)
    const path = `${settingsPath(repository, '/events')}?${eventFilterQuery(filter)}`
    const reader = { user: user.name, repository: `${owner}/${name}` }
    const content = html`${settingsHead(repository, '/events')}
<h2 id="events">Events</h2>
${eventFilterForm(filter)}
${events && eventList(events, path, reader, noEvents(filter))}`
    return sendPage(reply, { title: `Events · ${owner}/${name}` }, content)
  })
}
