import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.StatusesApi;
import org.openapitools.client.model.CommitStatuses;
import org.openapitools.client.model.CommitVerdict;
import org.openapitools.client.model.Status;
import org.openapitools.client.model.StatusReport;

class OkhttpGson extends DecodedValues {
    public static void main(String[] none) throws Exception {
        ApiClient client = new ApiClient().setBasePath(BASE_URL);
        client.setBearerToken(TOKEN);
        StatusesApi api = new StatusesApi(client);
        compare(new Api() {
            public Status report(StatusReport report) throws Exception {
                return api.reportStatus(OWNER, REPO, SHA, report);
            }

            public CommitStatuses list() throws Exception {
                return api.listStatuses(OWNER, REPO, SHA, null);
            }

            public CommitVerdict verdict(List<String> require) throws Exception {
                return api.getVerdict(OWNER, REPO, SHA, require, null, 1, null);
            }
        });
    }
}
