import { createAdministeredFinder, settingsHead, settingsPath } from '../../parts/administration.ts'
import { eventList, readEvents } from '../../parts/events.ts'
import type { RepositoryRoute } from '../../parts/find-repository.ts'
import { html } from '../../parts/html.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import type { Pages } from '../../parts/pages.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { userOf } from '../../session/session-auth.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'before'>
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
    const { createdAt } = await store.repositories.get(owner, name)
    const wantedEvents = { id, name: `${owner}/${name}`, since: createdAt * 1000 }
    const events = await readEvents(
      (...page) => store.auditLog.latestOf(wantedEvents, user.id, ...page),
      firstOf(request.query.before),
    )
    const path = settingsPath(repository, '/events')
    const content = html`${settingsHead(repository, '/events')}
<h2 id="events">Events</h2>
${eventList(events, path, user.name)}`
    return sendPage(reply, { title: `Events · ${owner}/${name}` }, content)
  })
}
