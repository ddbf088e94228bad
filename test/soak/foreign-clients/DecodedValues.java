// Reports and reads with a client that openapi-generator writes for Java, and compares every decoded value.
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.openapitools.client.model.CommitStatuses;
import org.openapitools.client.model.CommitVerdict;
import org.openapitools.client.model.State;
import org.openapitools.client.model.Status;
import org.openapitools.client.model.StatusReport;

class DecodedValues {
    static final String BASE_URL = System.getenv("BASE_URL"), TOKEN = System.getenv("TOKEN");
    static final String OWNER = System.getenv("OWNER"), REPO = System.getenv("REPO"), SHA = System.getenv("SHA");
    static final String CONTEXT = System.getenv("CONTEXT"), LINK = "https://ci.example.org/jobs/4711";

    /** The operations, which have other signatures with each HTTP library. */
    interface Api {
        Status report(StatusReport report) throws Exception;

        CommitStatuses list() throws Exception;

        CommitVerdict verdict(List<String> require) throws Exception;
    }

    static void compare(Api api) throws Exception {
        CommitStatuses before = api.list();
        expect(null, before.getState());
        expect(List.of(), before.getStatuses());

        StatusReport report = new StatusReport().state(State.PENDING).context(CONTEXT);
        Status first = api.report(report);
        expectStatus(first, State.PENDING, null, null);
        report.state(State.SUCCESS).description("412 tests passed").targetUrl(LINK);
        Status stored = api.report(report);
        expectStatus(stored, State.SUCCESS, "412 tests passed", LINK);
        expect(first.getId(), stored.getId());
        expect(first.getCreatedAt(), stored.getCreatedAt());

        CommitStatuses after = api.list();
        expect(CommitStatuses.StateEnum.SUCCESS, after.getState());
        expect(List.of(stored), after.getStatuses());

        CommitVerdict verdict = api.verdict(List.of("*", "none"));
        expect(CommitVerdict.VerdictEnum.PENDING, verdict.getVerdict());
        expect(CommitVerdict.StateEnum.SUCCESS, verdict.getState());
        List<Object> required = new ArrayList<>();
        verdict.getRequired().forEach((one) -> required.add(one.getPattern() + one.getState() + one.getContexts()));
        expect(List.of("*success[" + CONTEXT + "]", "nonenull[]"), required);
        System.exit(0);
    }

    static void expectStatus(Status status, State state, String description, String link) {
        OffsetDateTime now = OffsetDateTime.now();
        expect(7, status.getId().version());
        expect(SHA, status.getSha());
        expect(CONTEXT, status.getContext());
        expect(state, status.getState());
        expect(description, status.getDescription());
        expect(link, status.getTargetUrl());
        expect(true, Duration.between(status.getCreatedAt(), now).abs().toMinutes() < 5);
        expect(true, !status.getUpdatedAt().isBefore(status.getCreatedAt()) && status.getUpdatedAt().isBefore(now.plusMinutes(5)));
    }

    static void expect(Object wanted, Object found) {
        if (!Objects.equals(wanted, found)) throw new AssertionError("expected " + wanted + "; got " + found);
    }
}
