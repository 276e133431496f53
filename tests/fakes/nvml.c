/* What trainshed asks of NVIDIA's management library, for a machine with three GPUs: their minor numbers are not in the
   order of their indexes, and the last does not answer. */
#include <string.h>

static int devices[3] = {1, 0, 2};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = &devices[index]; return 0; }
int nvmlDeviceGetMinorNumber(void *device, unsigned int *minor) { *minor = *(int *)device; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned int size) { strncpy(name, "NVIDIA H200 (SXM)", size); return 0; }

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int size) {
    if (*(int *)device == 2) return 15; /* NVML_ERROR_GPU_IS_LOST */
    strncpy(uuid, *(int *)device ? "GPU-one" : "GPU-zero", size);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    memory[0] = 150754820096ULL;
    memory[1] = memory[2] = 0;
    return 0;
}
